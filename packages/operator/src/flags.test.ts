import { describe, expect, test } from "vitest";
import {
  choiceFlag,
  countFlag,
  durationFlag,
  type Flag,
  isUsageError,
  listFlag,
  pairsFlag,
  portFlag,
  switchFlag,
  textFlag,
  UsageError,
} from "./flags.ts";

const description = "";
const text = textFlag({ name: "text", value: "TEXT", description });
const np = countFlag({ name: "np", value: "N", description, min: 1, max: 64, default: "2" });
const port = portFlag({ name: "port", description, default: "0" });
const listenPort = portFlag({ name: "listen", description, min: 1 });
const mode = choiceFlag({ name: "mode", value: "MODE", description, choices: ["fast", "strong"], default: "fast" });
const timeout = durationFlag({ name: "timeout", description, bareUnit: "s", minMs: 1_000, maxMs: 3_600_000 });
const delay = durationFlag({ name: "delay", description });

describe("flags", () => {
  test.each<[Flag<unknown>, string | undefined, unknown]>([
    [text, "a", "a"],
    [text, "", undefined],
    [text, undefined, undefined],
    [np, undefined, 2],
    [np, "64", 64],
    [port, undefined, 0],
    [port, "65535", 65_535],
    [listenPort, undefined, undefined],
    [mode, undefined, "fast"],
    [mode, "strong", "strong"],
    [timeout, "90", 90_000],
    [timeout, "1m30s", 90_000],
    [timeout, undefined, undefined],
    [delay, "250ms", 250],
  ])("$0.name reads $1 as $2", (flag, value, expected) => {
    expect(flag.read({ [flag.name]: value })).toBe(expected);
  });

  test.each<[Flag<unknown>, string, string]>([
    [np, "0", '--np: invalid value "0": must be between 1 and 64'],
    [np, "1.5", '--np: invalid value "1.5": must be between 1 and 64'],
    [np, "1e1", '--np: invalid value "1e1": must be between 1 and 64'],
    [port, "65536", '--port: invalid value "65536": must be between 0 (any free port) and 65535'],
    [port, "-1", '--port: invalid value "-1": must be between 0 (any free port) and 65535'],
    [listenPort, "0", '--listen: invalid value "0": must be between 1 and 65535'],
    [mode, "weak", '--mode: invalid value "weak": must be one of fast, strong'],
    [timeout, "soon", '--timeout: invalid value "soon": must be a duration such as 90s or 1m30s'],
    [timeout, "500ms", '--timeout: invalid value "500ms": must be at least 1s'],
    [timeout, "2h", '--timeout: invalid value "2h": must be at most 3600s'],
    [delay, "5", '--delay: invalid value "5": must be a duration such as 90s or 1m30s'],
    [delay, "-5s", '--delay: invalid value "-5s": must be at least 0s'],
  ])("$0.name rejects $1", (flag, value, message) => {
    expect(() => flag.read({ [flag.name]: value })).toThrow(new UsageError(message));
  });

  test("a required flag that is missing is invalid usage", () => {
    const file = textFlag({ name: "file", value: "FILE", description, required: true });
    expect(() => file.read({})).toThrow(new UsageError("--file: required"));
  });

  test("a switch is read as whether it was passed", () => {
    const watch = switchFlag({ name: "watch", description });
    expect([watch.read({ watch: true }), watch.read({})]).toEqual([true, false]);
  });

  test("a repeatable flag is read as a list, even if it was passed once or not at all", () => {
    const label = listFlag({ name: "label", value: "L", description });
    expect([label.read({}), label.read({ label: "a" }), label.read({ label: ["a", "b"] })]).toEqual([[], ["a"], ["a", "b"]]);
  });

  test("pairs are split at the first equals sign and need a key", () => {
    const env = pairsFlag({ name: "env", value: "NAME=VALUE", description });
    expect(env.read({ env: ["A=b=c", "B="] })).toEqual([
      ["A", "b=c"],
      ["B", ""],
    ]);
    expect(() => env.read({ env: ["=b"] })).toThrow(
      new UsageError('--env: invalid value "=b": must be of the form NAME=VALUE'),
    );
  });
});

test("isUsageError distinguishes invalid usage from other errors", () => {
  expect([isUsageError(new UsageError("x")), isUsageError(new Error("x")), isUsageError("x")]).toEqual([true, false, false]);
});
