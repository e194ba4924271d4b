import { outputFlag } from "@keelson/operator";
import { expect, it } from "vitest";
import { createCommand, flagValues } from "./command-line.ts";

const parse = (...words: string[]) => {
  const command = createCommand({ name: "show", description: "show", flags: [outputFlag], run: async () => 0 });
  command.exitOverride().configureOutput({ writeErr: () => {} });
  command.action(() => {});
  command.parse(words, { from: "user" });
  return flagValues(command);
};

it("accepts the choices of a flag and applies its default", () => {
  expect(parse()).toEqual({ output: "text" });
  expect(parse("-o", "json")).toEqual({ output: "json" });
});

it("rejects any other value before the command runs and lists the choices", () => {
  expect(() => parse("--output", "xml")).toThrow(
    "option '-o, --output <FORMAT>' argument 'xml' is invalid. Allowed choices are text, json.",
  );
});
