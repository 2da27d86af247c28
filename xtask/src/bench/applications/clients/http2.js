// 20 clients of the Service, with one HTTP/2 connection and ten requests a second each. Nothing is sent twice; a connection that
// the server wants to end takes no more requests. One without an answer after five seconds is lost. Arguments: the Service's address, and `http` or `https`.
const http2 = require('http2');
const url = `${process.argv[2]}://${process.argv[1]}:8080`;
let requests = 0, failed = 0;
const client = () => {
    let current = null;
    const connect = () => {
        const session = http2.connect(url, {rejectUnauthorized: false});
        const leave = () => { if (current === session) current = null };
        session.on('error', leave);
        session.on('goaway', leave);
        session.on('close', leave);
        return session;
    };
    setInterval(() => {
        let isOver = false, isAnswered = false, stream;
        const end = lost => {
            if (isOver) return;
            isOver = true;
            clearTimeout(timer);
            requests++;
            failed += lost;
        };
        const timer = setTimeout(() => end(1), 5000);
        current ??= connect();
        try { stream = current.request({':path': '/'}) } catch { return end(1) }
        stream.on('response', () => { isAnswered = true });
        stream.on('error', () => {});
        stream.on('close', () => end(isAnswered ? 0 : 1));
        stream.resume();
        stream.end();
    }, 100);
};
for (let i = 0; i < 20; i++) client();
setInterval(() => console.log(JSON.stringify({requests, failed})), 500);
