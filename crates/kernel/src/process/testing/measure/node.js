// Makes lcov of what node noted of the files it ran.
const fs = require('node:fs');
const path = require('node:path');
const { fileURLToPath } = require('node:url');

const [notes, report] = process.argv.slice(1);
const root = process.cwd() + path.sep;
const files = new Map();

// Where each line begins and ends, without the space around it; none for a line of space alone.
function linesOf(text) {
  const lines = [];
  let start = 0;
  for (const line of text.split('\n')) {
    const inner = line.trim();
    const from = start + line.indexOf(inner);
    lines.push(inner === '' ? null : { from, to: from + inner.length, run: true });
    start += line.length + 1;
  }
  return lines;
}

for (const name of fs.readdirSync(notes)) {
  const noted = JSON.parse(fs.readFileSync(path.join(notes, name), 'utf8'));
  // What was translated has other places than the file.
  const translated = noted['source-map-cache'] ?? {};
  for (const script of noted.result) {
    if (!script.url.startsWith('file://') || script.url in translated) continue;
    const file = fileURLToPath(script.url);
    if (!file.startsWith(root) || file.includes('/node_modules/')) continue;
    const lines = linesOf(fs.readFileSync(file, 'utf8'));
    // Inner ranges come after those around them, and have the last word.
    for (const range of script.functions.flatMap((one) => one.ranges)) {
      for (const line of lines) {
        if (line && range.startOffset <= line.from && range.endOffset >= line.to) {
          line.run = range.count > 0;
        }
      }
    }
    const known = files.get(file) ?? new Map();
    lines.forEach((line, at) => {
      if (line) known.set(at + 1, known.get(at + 1) || line.run);
    });
    files.set(file, known);
  }
}

let text = '';
for (const [file, lines] of files) {
  text += `SF:${file}\n`;
  for (const [number, run] of lines) text += `DA:${number},${run ? 1 : 0}\n`;
  text += 'end_of_record\n';
}
fs.writeFileSync(report, text);
