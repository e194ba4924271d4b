import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatOrder, launcherEnvironment, podVariables, programEnvironment, workerEnvironment } from "./pod-environment.ts";

const rest = { [podVariables.token]: "t", [podVariables.podIP]: "127.5.0.1" };

describe("a Pod's environment", () => {
  it("carries any argument unchanged, with nothing that Kubernetes expands", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.constantFrom("$(HOME)", "$$(X)", "a b", "$(id); `x`")), { minLength: 1 }),
        (command) => {
          const text = formatOrder({ implementation: "Auto", ranks: 2, command });
          expect(text).not.toContain("$");
          expect(launcherEnvironment({ ...rest, [podVariables.order]: text }).order.command).toEqual(command);
        },
      ),
    );
  });

  it("hides the token from the program", () => {
    expect(programEnvironment({ ...rest, PATH: "/bin", JOB_COMPLETION_INDEX: "1" })).toEqual({
      PATH: "/bin",
      JOB_COMPLETION_INDEX: "1",
    });
  });

  it.each([
    [{}, /KEELSON_MPI_LAUNCHER: not set/],
    [{ [podVariables.launcher]: "127.5.0.1" }, /KEELSON_MPI_LAUNCHER: .* HOST:PORT/],
    [{ [podVariables.launcher]: "127.5.0.1:0" }, /KEELSON_MPI_LAUNCHER: .* HOST:PORT/],
    [{ [podVariables.launcher]: "127.5.0.1:1", [podVariables.index]: "-1" }, /JOB_COMPLETION_INDEX/],
  ])("names what is wrong in %j", (environment, message) => {
    expect(() => workerEnvironment({ ...rest, ...environment })).toThrow(message);
  });

  it.each([
    ["{", /is not JSON/],
    ['{"implementation":"LAM"}', /implementation: "LAM"/],
    ['{"implementation":"Auto","ranks":0}', /ranks/],
    ['{"implementation":"Auto","ranks":1,"command":[]}', /command/],
    ['{"implementation":"Auto","ranks":1,"command":["x"],"startDeadlineMs":0}', /startDeadlineMs/],
  ])("names what is wrong in the order %s", (order, message) => {
    expect(() => launcherEnvironment({ ...rest, [podVariables.order]: order })).toThrow(message);
  });
});
