import { expect, test } from "vitest";
import { parseJsonPathTemplate } from "./json-path-template.ts";

const list = {
  kind: "List",
  items: [
    { metadata: { name: "a", labels: { "x.y/z": "1" } }, spec: { replicas: 2 } },
    { metadata: { name: "b" }, spec: { replicas: 3, ports: [{ port: 80 }] } },
  ],
};

test.each([
  ["{.items[*].metadata.name}", "a b"],
  [".items[0].metadata.name", "a"],
  ['{range .items[*]}{.metadata.name}{"\\t"}{.spec.replicas}{"\\n"}{end}', "a\t2\nb\t3\n"],
  ["{.items[1].spec.ports}", '[{"port":80}]'],
  ["{.items[0].metadata.labels.x\\.y/z}", "1"],
  ['{.items[?(@.metadata.name=="b")].spec.replicas}', "3"],
  ["name: {.items[0].metadata.name}{'}'}", "name: a}"],
  ["{.nothing.here}", ""],
  ["{range .items[*]}{range .spec.ports[*]}{.port}{end};{end}", ";80;"],
])("renders %s as kubectl does", (template, expected) => {
  expect(parseJsonPathTemplate(template)(list)).toBe(expected);
});

test.each([
  ["{.items[*}", /"\]" is missing|unmatched/],
  ["{.items", /unmatched brace or quote at 0/],
  ["{range .items[*]}{.metadata.name}", /\{range\} without \{end\}/],
  ["{end}", /\{end\} without \{range\}/],
])("rejects the template %s", (template, message) => {
  expect(() => parseJsonPathTemplate(template)).toThrow(message);
});
