import os
import socket
import time

ANSWER = f"{os.environ['VERSION']} {socket.gethostname()} {time.time_ns()}\n".encode()


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(ANSWER)))])
    return [ANSWER]
