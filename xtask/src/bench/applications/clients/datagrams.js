// 100 datagrams a second to the Service, each from a port of its own; one without an answer after two seconds is lost. Argument: the
// Service's address.
const dgram = require('dgram');
let requests = 0, failed = 0;
setInterval(() => {
    const socket = dgram.createSocket('udp4');
    let isOver = false;
    const end = lost => {
        if (isOver) return;
        isOver = true;
        clearTimeout(timer);
        socket.close();
        requests++;
        failed += lost;
    };
    const timer = setTimeout(() => end(1), 2000);
    socket.on('message', () => end(0));
    socket.on('error', () => end(1));
    socket.send('q', 8080, process.argv[1]);
}, 10);
setInterval(() => console.log(JSON.stringify({requests, failed})), 500);
