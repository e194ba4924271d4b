/* Keeps phrases that read like a translation out of messages, comments, help texts and documentation. STYLE: write the field's English. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { root } from "./steps.mjs";

/** Each phrase with what to write in its place. */
const phrases = [
  [/\b(is|are|was|were|be|been|being) told\b/i, "name what happens: is notified, receives, reports"],
  [/\btells? (of|about|nothing|whether|which|what|how|who|so|it so)\b|\btold of\b/i, "says, reports, shows"],
  [
    /(?<!\bthere )\b(is|are) no (?!longer\b|more\b|larger\b|later\b|older\b|newer\b|shorter\b|other\b|such file\b|op\b)[a-z]/i,
    "is not a valid …, has no …, is not …",
  ],
  [/\bwhat there is( not)?\b|\bthere is not\b/i, "name it, or `not found`"],
  [
    /\b(it|which|that|and|then|others?|rest|one|work|tour) goes? on\b|\bgo(es)? on (with(out)?|as|where|until|to)\b/i,
    "continues, retrying",
  ],
  [
    /\b((?<!user )[Nn]obody (?=[a-z])|[Ss]omebody|[Ww]hoever|[Ww]homever)\b/,
    "name the actor: a client, another process, no one",
  ],
  [/\bwho (writes|has|wants|wanted|cannot|reads|runs|asks|asked)\b/i, "name the actor: callers that …, a user that …"],
  [/\bbesides\b/i, "in addition to, other than"],
  [/\bat once\b/i, "immediately, or at the same time"],
  [/\bfor good\b/i, "permanently"],
  [/\b(not )?heard (of|from)\b/i, "has (not) reported"],
  [
    /\b(is|was|were|be) (learnt|learned|asked for|looked at|looked for|given up|held back|made out of)\b/i,
    "is requested, is inspected, is determined",
  ],
  [/\bsees to\b/i, "ensures, handles"],
  [/\bof its own accord\b|\bin hand\b|\bby and by\b|\bas yet\b/i, "say it plainly"],
  [/\bvouch(es)? for\b/i, "trusts"],
  [/\b(longest|deepest|most)[A-Z][A-Za-z]*\b/, "max…"],
  [/\bof (its|their|his|your|our) own accord\b|\ban? [a-z]+ of (its|their|your|our) own\b/, "its own …, a separate …"],
  [/(?<=[a-z] )beside (?=(the|a|an|its|it|them|their|another|other)\b)/, "alongside, next to"],
  [/\bagain and again\b/i, "repeatedly"],
  [/\bthere (is|are) no such\b/i, "… does not exist"],
  [/\b(is|are|was|were) not [a-z]+ any more\b/, "no longer"],
  [/\b(does|do|did) not answer\b(?! (its|the|it|a|to)\b)/, "does not respond"],
  [/\bprocessor time\b/i, "CPU time"],
  [/, also (if|when|while|after|before|across|without)\b/, "even if, even when"],
  [/\bin the place of\b|\bat present\b/i, "in place of, currently"],
  [/\bno right to\b|\bthe right to (create|get|read|use|list|watch|run|delete|mount)\b/i, "permission to"],
  [/\b(agents?|operator) of (sandboxes|middleware)\b/i, "sandbox agents, middleware operator"],
];

/** Phrases that documentation avoids; code may use the words as identifiers. */
const documentationPhrases = [
  [/\btexts\b/i, "strings"],
  [/^(- )?Before, /, "Previously"],
  [/\b[Tt]he (driver|field|annotation|label|flag|finalizer|column) `/, "the `x` driver, the `x` field"],
];

const listed = spawnSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
if (listed.status !== 0) {
  // A source archive has no index to ask.
  process.stdout.write("prose: skipped outside a git checkout\n");
  process.exit(0);
}
const files = listed.stdout
  .split("\n")
  .filter((file) => /\.(ts|mjs|md|yaml|proto)$/.test(file))
  .filter(
    (file) => !/(^|\/)(testdata|generated|node_modules|dist)\/|\.generated\.|^scripts\/check-prose\.mjs$|LICENSE/.test(file),
  );

const findings = [];
for (const file of files) {
  let text;
  try {
    text = readFileSync(join(root, file), "utf8");
  } catch {
    continue; // Deleted in the working tree.
  }
  text.split("\n").forEach((line, index) => {
    for (const [pattern, advice] of file.endsWith(".md") ? [...phrases, ...documentationPhrases] : phrases) {
      const match = line.match(pattern);
      if (match) findings.push(`${file}:${index + 1}: "${match[0]}": ${advice}`);
    }
  });
}
if (findings.length > 0) {
  writeSync(2, `${findings.join("\n")}\n${findings.length} phrases to rewrite; see CONTRIBUTING.md\n`);
  process.exitCode = 1;
}
