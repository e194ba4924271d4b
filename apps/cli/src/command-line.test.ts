import { outputFlag } from "@keelson/operator";
import { logLevelFlag } from "@keelson/operator/flags";
import { expect, it } from "vitest";
import { createCommand, flagValues } from "./command-line.ts";

const parse = (...words: string[]) => {
  const flags = [outputFlag, logLevelFlag];
  const command = createCommand({ name: "show", description: "show", flags, run: async () => 0 });
  command.exitOverride().configureOutput({ writeErr: () => {} });
  command.action(() => {});
  command.parse(words, { from: "user" });
  return flagValues(command);
};

it("accepts the choices of a flag and applies its default", () => {
  expect(parse()).toEqual({ output: "table", "log-level": "info" });
  expect(parse("-o", "json", "--log-level", "debug")).toEqual({ output: "json", "log-level": "debug" });
});

it("rejects any other value before the command runs and lists the choices", () => {
  expect(() => parse("--log-level", "loud")).toThrow(
    "option '--log-level <LEVEL>' argument 'loud' is invalid. Allowed choices are debug, info, warn, error, silent.",
  );
});

it("rejects a malformed output format before the command runs", () => {
  expect(parse("-o", "jsonpath={.items}")).toMatchObject({ output: "jsonpath={.items}" });
  expect(() => parse("-o", "xml")).toThrow(
    '--output: invalid value "xml": must be one of table, json, yaml, jsonpath=TEMPLATE',
  );
  expect(() => parse("-o", "jsonpath={.items")).toThrow("JSONPath template: unmatched brace or quote at 0");
});
