import { expect, it } from "vitest";
import { dispatchProblem } from "./dispatch-parameters.ts";

const policy = { metaRequired: ["site"], metaOptional: ["speed"] };
const payload = new Uint8Array(3);

it.each([
  [policy, { meta: { site: "a" } }, undefined],
  [policy, { meta: { site: "a", speed: "2" }, payload }, undefined],
  [policy, { meta: {} }, "missing metadata site; set it with --meta site=VALUE"],
  [policy, { meta: { site: "a", color: "red" } }, "unknown metadata color; the job accepts site, speed"],
  [{}, { meta: { color: "red" } }, "unknown metadata color; the job accepts none"],
  [{ payload: "required" as const }, { meta: {} }, "missing payload; set it with --payload FILE"],
  [{ payload: "forbidden" as const }, { meta: {}, payload }, "the job does not accept a payload"],
  [{}, { meta: {}, payload: new Uint8Array(16_385) }, "the payload is 16385 bytes; must be at most 16384 bytes"],
])("a job with %j, dispatched with %j: %s", (parameterized, parameters, problem) => {
  expect(dispatchProblem(parameterized, parameters)).toBe(problem);
});
