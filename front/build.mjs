// Builds the page into the Python package: one script, one style sheet, the document, an icon, the licences and a digest
// of the sources.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = join(here, "..", "src", "skyband", "dashboard", "assets");

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
await build({
  entryPoints: { page: join(here, "src", "main.tsx"), style: join(here, "src", "style", "page.css") },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome115", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  charset: "utf8",
  logLevel: "warning",
});
await copyFile(join(target, "style.css"), join(target, "page.css"));
await rm(join(target, "style.css"));
for (const name of ["index.html", "favicon.svg"]) await copyFile(join(here, "src", name), join(target, name));
await writeFile(join(target, "licences.txt"), await licences());
await writeFile(join(target, "built-from.txt"), `${await digest()}\n`);

let total = 0;
for (const name of (await readdir(target)).sort()) {
  const size = gzipSync(await readFile(join(target, name)), { level: 9 }).length;
  total += size;
  console.log(`${name.padEnd(16)} ${(size / 1000).toFixed(1).padStart(7)} KB compressed`);
}
console.log(`${"together".padEnd(16)} ${(total / 1000).toFixed(1).padStart(7)} KB`);

/** The licences of the bundled packages. */
async function licences() {
  const parts = [];
  for (const name of ["preact", "uplot"]) {
    const { version } = JSON.parse(await readFile(join(here, "node_modules", name, "package.json"), "utf8"));
    parts.push(`${name} ${version}\n\n${(await readFile(join(here, "node_modules", name, "LICENSE"), "utf8")).trim()}\n`);
  }
  return parts.join(`\n${"-".repeat(78)}\n\n`);
}

/** A digest of all sources: for each file, sorted by path, the path, a zero byte, the length, a zero byte, the bytes. */
async function digest() {
  const found = [];
  const walk = async (folder) => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.name === "node_modules") continue;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await walk(path);
      else found.push(relative(here, path).split(sep).join("/"));
    }
  };
  await walk(here);
  const hash = createHash("sha256");
  for (const name of found.sort((a, b) => (a < b ? -1 : 1))) {
    const content = await readFile(join(here, name));
    hash.update(`${name}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}
