import os
import socket
import time

ANSWER = f"{os.environ['VERSION']} {socket.gethostname()} {time.time_ns()}\n".encode()
HEADERS = [(b"content-type", b"text/plain"), (b"content-length", str(len(ANSWER)).encode())]


async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})
