import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AgentError, unknownSandbox } from "../../protocol/agent-error.ts";
import { agentError } from "./streams-service.ts";

const absence = "sandbox default/a is not running; it is Failed: image nope not found";

test("explains why an agent does not have a sandbox, and passes its other errors on", () => {
  const rejected = (message: string, status: number): AgentError => new AgentError("Rejected", message, { status });
  expect(agentError(rejected(unknownSandbox, 404), absence)).toMatchObject({
    code: Code.FailedPrecondition,
    rawMessage: absence,
  });
  expect(agentError(rejected("work/a: a not found", 404), absence)).toMatchObject({
    code: Code.NotFound,
    rawMessage: "work/a: a not found",
  });
});
