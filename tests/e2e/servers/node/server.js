const { createServer } = require("http");
const { hostname } = require("os");

const answer = `${process.env.VERSION} ${hostname()} ${Date.now()}\n`;
createServer((request, response) => {
  response.setHeader("Content-Length", answer.length);
  response.end(answer);
}).listen(8080);
