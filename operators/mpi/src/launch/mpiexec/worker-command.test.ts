import { expect, test } from "vitest";
import { workerCommand } from "./worker-command.ts";

const words = [
  "orted",
  "-mca",
  "plm",
  "rsh",
  "-mca",
  "plm_rsh_agent",
  "/tmp/kmpi-1/agent",
  "-mca",
  "plm_rsh_no_tree_spawn",
  "1",
];

test("replaces the launcher's agent, which a worker in another Pod does not have", () => {
  expect(workerCommand(words, () => false)).toEqual(words.with(6, "/bin/sh"));
});

test("passes the command on unchanged if the agent exists, or if there is none", () => {
  expect(workerCommand(words, () => true)).toEqual(words);
  const hydra = ["hydra_pmi_proxy", "--control-port", "host:1"];
  expect(workerCommand(hydra, () => false)).toEqual(hydra);
});
