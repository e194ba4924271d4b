import { expect, it } from "vitest";
import { parseAgentSandbox } from "./protocol.ts";

const sandbox = { sandboxId: "0".repeat(32), image: "host" };

it("accepts the original's requests, including CPU and memory quantities", () => {
  const sent = { ...sandbox, claimUid: "u", claimName: "c", cpu: "500m", memory: "256Mi", env: { A: "b" }, workingDir: "" };
  expect(parseAgentSandbox({ sandbox: sent })).toEqual({ sandbox: { ...sent, namespace: "default" } });
});

it.each([
  ["no sandbox", undefined, /^sandbox: /],
  ["an id with a path", { ...sandbox, sandboxId: "../../etc/passwd" }, /^sandbox\.sandboxId: /],
  ["no image", { ...sandbox, image: "" }, /^sandbox\.image: /],
  ["port 0", { ...sandbox, ports: [0] }, /^sandbox\.ports: /],
  ["a relative directory", { ...sandbox, workingDir: "tmp" }, /^sandbox\.workingDir: /],
  ["zero cpu", { ...sandbox, cpu: "0" }, /^sandbox\.cpu: "0" must be a positive quantity/],
  ["memory that is not a quantity", { ...sandbox, memory: "lots" }, /^sandbox\.memory: "lots" must be a positive quantity/],
])("rejects %s and names the field", (_, value, problem) => {
  expect(parseAgentSandbox({ sandbox: value })).toEqual({ problem: expect.stringMatching(problem) });
});
