import { describe, expect, it } from "vitest";
import { parseOutput, podNameOf, programPod } from "./program-pod.ts";

describe("the Pod of a program", () => {
  const place = { name: "p", namespace: "home", roundNamespace: "round", activeDeadlineSeconds: 90 };
  const run = { test: "shop.example", uid: "01234567-89ab", round: 2, index: 3, attempt: 1 };

  it("has the same name for the same attempt", () => {
    expect(podNameOf(run)).toBe("shop.example-01234-2-3-1");
    expect(podNameOf({ ...run, attempt: 2 })).not.toBe(podNameOf(run));
    expect(podNameOf({ ...run, test: "x".repeat(200) }).length).toBeLessThan(64);
  });

  it("runs a command as it is, without credentials", () => {
    const command = { command: ["nc", "-z", "web", "80"], image: "tools", env: [{ name: "A", value: "1" }] };
    expect(programPod({ name: "a", command }, place)).toMatchObject({
      kind: "Pod",
      metadata: { name: "p", namespace: "home" },
      spec: {
        restartPolicy: "Never",
        activeDeadlineSeconds: 90,
        automountServiceAccountToken: false,
        containers: [
          { image: "tools", command: command.command, env: [{ name: "NAMESPACE", value: "round" }, ...command.env] },
        ],
      },
    });
  });

  it("has the credentials of the ServiceAccount of the test", () => {
    const pod = programPod({ name: "a", script: { content: "true" } }, { ...place, serviceAccountName: "tester" });
    expect(pod["spec"]).toMatchObject({ serviceAccountName: "tester" });
    expect(pod["spec"]).not.toHaveProperty("automountServiceAccountToken");
  });

  it("protects the script from the expansion of variables by the kubelet", () => {
    const pod = programPod({ name: "a", script: { content: "echo $(date) ${HOME}" } }, place);
    expect(JSON.stringify(pod)).toContain('"echo $$(date) ${HOME}"');
  });
});

describe("the output of a program", () => {
  it("is split into standard output and standard error", () => {
    expect(parseOutput("one\ntwo\n\n--- standard error of p\noops\n", "p")).toEqual({ stdout: "one\ntwo\n", stderr: "oops\n" });
    expect(parseOutput("one\n", "p")).toEqual({ stdout: "one\n", stderr: "" });
    expect(parseOutput("--- standard error of p\n\n--- standard error of p\nx", "p")).toMatchObject({ stderr: "x" });
  });

  it("is cut at the front, between characters", () => {
    const { stdout } = parseOutput(`${"é".repeat(10_000)}end`, "p");
    expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(16_384);
    expect(stdout).toMatch(/^é+end$/);
  });
});
