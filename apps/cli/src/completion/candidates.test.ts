import { Command, Option } from "commander";
import { expect, test } from "vitest";
import { expectedWord } from "./candidates.ts";

function program(): Command {
  const keelson = new Command("keelson").option("-v, --version", "print the version");
  keelson
    .command("up")
    .description("run")
    .addOption(new Option("--log-level <LEVEL>").choices(["info", "warn"]));
  keelson.command("component", { hidden: true });
  const mpi = keelson.command("mpi").alias("jobs").description("run jobs");
  mpi
    .command("logs")
    .description("print")
    .argument("<NAME>")
    .option("-n, --namespace <NAME>", "namespace")
    .option("-f, --follow", "follow")
    .option("--mount <DIR>", "mount");
  return keelson;
}

const words = (...typed: string[]): readonly string[] | string => {
  const expected = expectedWord(program(), typed);
  return expected.kind === "words" ? expected.candidates.map(({ word }) => word) : JSON.stringify(expected);
};

test("visible commands and their aliases", () => {
  expect(words("")).toEqual(["up", "mpi", "jobs"]);
  expect(words("jobs", "")).toEqual(["logs"]);
  expect(words("-v", "")).toEqual(["up", "mpi", "jobs"]);
});

test("flags of the command, even after its arguments", () => {
  expect(words("-")).toEqual(["--version"]);
  expect(words("mpi", "logs", "--")).toEqual(["--namespace", "--follow", "--mount"]);
  expect(words("mpi", "logs", "pi", "--mount", "x", "-")).toEqual(["--namespace", "--follow", "--mount"]);
});

test("values of flags", () => {
  expect(words("up", "--log-level", "")).toEqual(["info", "warn"]);
  expect(words("mpi", "logs", "-n", "")).toBe('{"kind":"namespace"}');
  expect(words("mpi", "logs", "--mount", "")).toBe('{"kind":"value"}');
});

test("arguments, after switches and flags with a value", () => {
  const argument = '{"kind":"argument","group":"mpi","argument":"NAME"}';
  expect(words("mpi", "logs", "")).toBe(argument);
  expect(words("mpi", "logs", "-f", "")).toBe(argument);
  expect(words("jobs", "logs", "-n", "default", "p")).toBe(argument);
});
