import { expect, it } from "vitest";
import { type ToolAction, withTexts } from "./tool-plan.ts";

it.each<[string, unknown, unknown]>([
  [
    "body and headers of a request",
    { kind: "http", http: { url: "http://a/", body: { size: 3 }, headers: [{ name: "x", value: 7 }] } },
    { kind: "http", http: { url: "http://a/", body: '{"size":3}', headers: [{ name: "x", value: "7" }] } },
  ],
  [
    "command and input of a program",
    { kind: "exec", exec: { pod: "a", command: ["sleep", 5], stdin: 42 } },
    { kind: "exec", exec: { pod: "a", command: ["sleep", "5"], stdin: "42" } },
  ],
  [
    "a text and a request for a port",
    { kind: "portForward", portForward: { pod: "a", port: 80, send: 1, http: { path: "/", body: true } } },
    { kind: "portForward", portForward: { pod: "a", port: 80, send: "1", http: { path: "/", body: "true" } } },
  ],
])("renders %s as text", (_, action, expected) => {
  expect(withTexts(action as ToolAction)).toEqual(expected);
});
