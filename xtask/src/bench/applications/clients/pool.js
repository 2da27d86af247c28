// 20 clients of the Service with a connection each, on which they ask ten times a second and expect an answer within two seconds. A
// connection that has ended is made again at once, one that could not be made after 20 ms, and one that takes two seconds is given up. What
// was asked on a connection that ended without an answer is lost, and so is what could not be asked once there has been none for two seconds.
// Arguments: the Service's address, and what is spoken: plain (each byte comes back), upgrade (the same after HTTP/1.1), redis, nats or
// postgresql.
const net = require('net');
const lines = text => { const all = text.split('\r\n'); return [all.slice(0, -1), all.at(-1)] };
const only = (known, [all, rest]) => {
    if (all.some(line => !known.includes(line.split(' ')[0]))) throw new Error(all);
    return [all, rest];
};
const messages = text => {
    const all = [];
    for (let long; text.length > 4 && text.length > (long = Buffer.from(text, 'latin1').readUInt32BE(1)); text = text.slice(1 + long)) {
        if (text[0] === 'E') throw new Error(text);
        all.push(text[0]);
    }
    return [all, text];
};
const packet = (type, body) => {
    const long = Buffer.alloc(4);
    long.writeUInt32BE(body.length + 4);
    return type + long.toString('latin1') + body;
};
// hello: what is said first; opens: what the answer to that is; answer: what the one to a question is; read: the answers in a text, and the rest.
const spoken = {
    plain: { ask: 'q', answer: 'q', read: text => [[...text], ''] },
    upgrade: {
        hello: 'GET / HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n', opens: '',
        ask: 'q', answer: 'q', read: text => text.startsWith('HTTP') ? (text.endsWith('\r\n\r\n') ? [[''], ''] : [[], text]) : [[...text], ''],
    },
    redis: { ask: 'PING\r\n', answer: '+PONG', read: text => only(['+PONG'], lines(text)) },
    nats: {
        hello: 'CONNECT {"verbose":false}\r\n', opens: 'INFO', ask: 'PING\r\n', answer: 'PONG', asked: 'PING', replies: 'PONG\r\n',
        read: text => { const [all, rest] = only(['INFO', 'PING', 'PONG'], lines(text)); return [all.map(line => line.split(' ')[0]), rest] },
    },
    postgresql: {
        hello: packet('', '\0\x03\0\0user\0root\0database\0postgres\0\0'), opens: 'Z', ask: packet('Q', 'SELECT 1\0'), answer: 'Z', read: messages,
    },
}[process.argv[2]];
let requests = 0, failed = 0, longest = 0, last = Date.now();
const pause = () => longest = Math.max(longest, Date.now() - last);
const client = () => {
    let socket, isOpen, waiting, since = Date.now();
    const end = (timer, lost) => {
        clearTimeout(timer);
        requests++;
        failed += lost;
        if (!lost) { pause(); last = Date.now() }
    };
    const connect = () => {
        const own = socket = net.connect(8080, process.argv[1]);
        let text = '';
        [isOpen, waiting] = [false, []];
        own.on('connect', () => { if (spoken.hello) own.write(spoken.hello, 'latin1'); else isOpen = true });
        own.on('error', () => {});
        own.on('data', data => {
            let all;
            try { [all, text] = spoken.read(text + data.toString('latin1')) } catch (error) { own.destroy(); return }
            for (const one of all) {
                if (one === spoken.asked) own.write(spoken.replies);
                else if (!isOpen) isOpen = one === spoken.opens;
                else if (one === spoken.answer && waiting.length) end(waiting.shift(), 0);
            }
        });
        const late = setTimeout(() => { if (!isOpen) own.destroy() }, 2000);
        own.on('close', () => {
            clearTimeout(late);
            waiting.forEach(timer => end(timer, 1));
            if (isOpen) since = Date.now();
            setTimeout(connect, isOpen ? 0 : 20);
        });
    };
    connect();
    setInterval(() => {
        if (!isOpen) {
            if (Date.now() - since > 2000) { requests++; failed++ }
            return;
        }
        const own = socket;
        own.write(spoken.ask, 'latin1');
        waiting.push(setTimeout(() => own.destroy(), 2000));
    }, 100);
};
for (let i = 0; i < 20; i++) client();
setInterval(() => {
    pause();
    console.log(JSON.stringify({requests, failed, longest_ms: longest}));
    longest = 0;
}, 500);
