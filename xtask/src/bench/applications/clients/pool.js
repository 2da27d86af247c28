// 20 clients of the Service with a connection each, on which they say a byte ten times a second and expect it back within two
// seconds. A connection that has ended is made again at once; what was said on it without an answer is lost, and so is what could not be
// said for two seconds. Arguments: the Service's address, and `plain`, or `upgrade` from HTTP/1.1.
const net = require('net');
const hello = process.argv[2] === 'upgrade' ? 'GET / HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n' : '';
let requests = 0, failed = 0;
const client = () => {
    let socket, isOpen, began, waiting;
    const end = (timer, lost) => { clearTimeout(timer); requests++; failed += lost };
    const connect = () => {
        const own = socket = net.connect(8080, process.argv[1]);
        [isOpen, began, waiting] = [hello === '', Date.now(), []];
        own.on('connect', () => { if (hello) own.write(hello) });
        own.on('error', () => {});
        own.on('data', data => {
            if (!isOpen) { isOpen = true; return }
            for (const timer of waiting.splice(0, data.length)) end(timer, 0);
        });
        own.on('close', () => {
            waiting.forEach(timer => end(timer, 1));
            connect();
        });
    };
    connect();
    setInterval(() => {
        if (!isOpen) {
            if (Date.now() - began > 2000) { requests++; failed++ }
            return;
        }
        const own = socket;
        own.write('q');
        waiting.push(setTimeout(() => own.destroy(), 2000));
    }, 100);
};
for (let i = 0; i < 20; i++) client();
setInterval(() => console.log(JSON.stringify({requests, failed})), 500);
