import { expect, it } from "vitest";
import { parseAgentSandbox } from "./protocol.ts";

const sandbox = { sandboxId: "0".repeat(32), image: "host" };

it("takes what the original sends, amounts of cpu and memory included", () => {
  const sent = { ...sandbox, claimUid: "u", claimName: "c", cpu: "500m", memory: "256Mi", env: { A: "b" }, workingDir: "" };
  expect(parseAgentSandbox({ sandbox: sent })).toEqual({ sandbox: { ...sent, namespace: "default" } });
});

it.each([
  ["no sandbox", undefined, /^sandbox: /],
  ["an id that leads elsewhere", { ...sandbox, sandboxId: "../../etc/passwd" }, /^sandbox\.sandboxId: /],
  ["no image", { ...sandbox, image: "" }, /^sandbox\.image: /],
  ["port 0", { ...sandbox, ports: [0] }, /^sandbox\.ports: /],
  ["a relative folder", { ...sandbox, workingDir: "tmp" }, /^sandbox\.workingDir: /],
  ["no cpu at all", { ...sandbox, cpu: "0" }, /^sandbox\.cpu: "0" must be a quantity/],
  ["memory that is none", { ...sandbox, memory: "lots" }, /^sandbox\.memory: "lots" must be a quantity/],
])("refuses %s, and names the field", (_, value, problem) => {
  expect(parseAgentSandbox({ sandbox: value })).toEqual({ problem: expect.stringMatching(problem) });
});
