import { expect, it } from "vitest";
import { parsePortPair } from "./port-forward.ts";

it.each([
  ["8080", { local: 8080, remote: 8080 }],
  ["3000:8080", { local: 3000, remote: 8080 }],
  [":8080", { local: 0, remote: 8080 }],
])("reads the ports %s", (text, pair) => {
  expect(parsePortPair(text)).toEqual(pair);
});

it.each(["", "0", "65536", "70000:80", "80:", "a:80", "1:2:3", "-1"])("rejects the ports %j", (text) => {
  expect(() => parsePortPair(text)).toThrow(/must be PORT or LOCAL:PORT/);
});
