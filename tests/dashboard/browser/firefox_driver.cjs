// Node loads this into Playwright's driver (see firefox.py). Playwright sends Firefox commands of WebDriver BiDi that only
// newer versions know. Those that set no more than a preference are answered here, because firefox.py sets the preference.
const path = require("node:path");

const ANSWERED = new Set(["emulation.setMediaFeaturesOverride"]);

if (path.basename(process.argv[1] ?? "") === "cli.js") {
  const { ws } = require(path.join(path.dirname(process.argv[1]), "lib", "utilsBundle.js"));
  const send = ws.prototype.send;
  ws.prototype.send = function (text, ...others) {
    const { id, method } = typeof text === "string" ? JSON.parse(text) : {};
    if (!ANSWERED.has(method)) return send.call(this, text, ...others);
    setImmediate(() => this.emit("message", Buffer.from(JSON.stringify({ type: "success", id, result: {} })), false));
  };
}
