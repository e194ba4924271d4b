import { outputFlag } from "@keelson/operator";
import { expect, it } from "vitest";
import { commandOf, flagValues } from "./command-line.ts";

const parse = (...words: string[]) => {
  const command = commandOf({ name: "show", description: "shows", flags: [outputFlag], run: async () => 0 });
  command.exitOverride().configureOutput({ writeErr: () => {} });
  command.action(() => {});
  command.parse(words, { from: "user" });
  return flagValues(command);
};

it("takes the values that a flag may have, and its default", () => {
  expect(parse()).toEqual({ output: "text" });
  expect(parse("-o", "json")).toEqual({ output: "json" });
});

it("refuses another value before the command runs, and says which there are", () => {
  expect(() => parse("--output", "xml")).toThrow(
    "option '-o, --output <FORMAT>' argument 'xml' is invalid. Allowed choices are text, json.",
  );
});
