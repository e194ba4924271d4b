import { expect, test } from "vitest";
import { podOf } from "../pod/testing/simulated-pod.ts";
import { resolveEnvironment } from "./environment.ts";
import { expand, expandWords } from "./expand.ts";

const resolve = (env: readonly { readonly name: string; readonly value: string }[]) =>
  resolveEnvironment(
    podOf(),
    { name: "main", env },
    {
      ...{ configMap: () => Promise.resolve(undefined), secret: () => Promise.resolve(undefined), services: [] },
      ...{ podIP: "", hostIP: "", nodeName: "", nodeLimits: { cpu: "1", memory: "1Gi" }, base: {} },
    },
  );

test("expands references to earlier variables", async () => {
  expect(expand("$(A)-$$(A)-$(B)", { A: "a" }, "value")).toBe("a-$(A)-$(B)");
  const env = [
    { name: "A", value: "$(B)" },
    { name: "B", value: "b$(A)" },
  ];
  expect(await resolve(env)).toEqual({ A: "$(B)", B: "b$(B)" });
});

test("variables that double each other are rejected before they fill the memory", async () => {
  const doubling = Array.from({ length: 60 }, (_, index) => ({
    name: `V${index}`,
    value: index === 0 ? "x".repeat(100) : `$(V${index - 1})$(V${index - 1})`,
  }));
  await expect(resolve(doubling)).rejects.toThrow(
    /^env V\d+: the container's values have more than 4194304 characters together$/,
  );
  const many = Array.from({ length: 100 }, (_, index) => ({
    name: `V${index}`,
    value: index === 0 ? "x".repeat(100_000) : "$(V0)",
  }));
  await expect(resolve(many)).rejects.toThrow("env V41");
});

test("the words of a command have a limit together", () => {
  const env = { A: "x".repeat(100_000) };
  expect(() =>
    expandWords(
      Array.from({ length: 100 }, () => "$(A)"),
      env,
    ),
  ).toThrow("command[41]");
});
