import { expect, test } from "vitest";
import { isDynamic, parseTemplate, renderTemplate } from "./template.ts";

const values =
  (known: Readonly<Record<string, string>>) =>
  (name: string): string | undefined =>
    known[name];
const data = {
  env: values({ MODE: "fast" }),
  meta: values({ site: 'b"1' }),
  label: values({ bay: " 7 " }),
  attr: values({ "cpu.arch": "arm64" }),
};
const delimiters = { left: "{{", right: "}}" };
const render = (text: string) => renderTemplate(parseTemplate(text, delimiters), data);

test.each([
  ["no values", "no values"],
  ['mode={{ env "MODE" }};arch={{attr "cpu.arch"}}', "mode=fast;arch=arm64"],
  ['{{ meta "site" | toJSON }}', '"b\\"1"'],
  ['{{ label "bay" | trimSpace | toJSON }}', '"7"'],
  ['{{ env "MODE" | toUpper }}{{ env `MODE` | toLower }}', "FASTfast"],
  ['{{ env "NONE" "x\\n\\"" }}', 'x\n"'],
  ['a {{- env "MODE" -}} b', "afastb"],
  ["a{{/* {{ not a value */}}b", "ab"],
  ["{{ env `a` `` }}", ""],
])("%j becomes %j", (text, expected) => {
  expect(render(text)).toBe(expected);
});

test("delimiters can be replaced", () => {
  expect(renderTemplate(parseTemplate('{{ x }} [[ env "MODE" ]]', { left: "[[", right: "]]" }), data)).toBe("{{ x }} fast");
});

test.each([
  ['\n{{ key "x" }}', 'line 2: "key" is not a known function; known are env, meta, label, attr'],
  ["{{ env }}", "env must be followed by one or two strings"],
  ['{{ env "a" "b" "c" }}', "one or two strings"],
  ["{{ env MODE }}", "one or two strings"],
  ['{{ env "MODE" | sh }}', "| must be followed by one of toJSON"],
  ['{{ env "MODE" | }}', "| must be followed by one of"],
  ['{{ .Env "x" }}', "is not supported"],
  ['{{ env "MODE"', "{{ is not closed"],
  ["{{ constructor `x` }}", "is not a known function"],
  ["{{}}", "is not a known function"],
  ['{{ env "NONE" }}', 'env "NONE" is not known; give a default as second argument'],
])("%j is rejected with its line", (text, message) => {
  expect(() => render(text)).toThrow(message);
});

test("lines are counted across actions and text", () => {
  expect(() => render('\n{{ env "MODE" }}\n\n{{/* a\nb */}}\n{{ env }}')).toThrow("line 6: env must be");
});

test("a result larger than 4 MiB is rejected", () => {
  const long = values({ LONG: "x".repeat(1024 * 1024) });
  const renderTimes = (count: number) =>
    renderTemplate(parseTemplate('\n{{ env "LONG" }}'.repeat(count), delimiters), { ...data, env: long });
  expect(renderTimes(3)).toHaveLength(3 * (1024 * 1024 + 1));
  expect(() => renderTimes(5)).toThrow("line 5: the rendered template is larger than 4 MiB");
});

test("only labels and attributes change while a task runs", () => {
  const changes = (text: string) => isDynamic(parseTemplate(text, delimiters));
  expect([changes('{{ label "x" }}'), changes('{{ attr "x" }}'), changes('{{ env "x" }}{{ meta "y" }}')]).toEqual([
    true,
    true,
    false,
  ]);
});
