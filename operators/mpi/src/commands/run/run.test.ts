import { UsageError } from "@keelson/operator/flags";
import { describe, expect, it } from "vitest";
import { jobOfFlags } from "./job-flags.ts";

const caller = { folder: "/home/me", path: "/opt/bin:/bin", hasInput: false, suffix: "0a1b2c" };
const job = (args: string[], flags: Record<string, string | string[] | true> = {}, rest: Partial<typeof caller> = {}) =>
  jobOfFlags({ args, flags }, { ...caller, ...rest });

describe("keelson mpi run", () => {
  it("creates a job for a program in the current directory, named after it", () => {
    expect(job(["./My_Pi.x", "a b", "-n", "$(x)"], { np: "4" })).toMatchObject({
      name: "my-pi-x-0a1b2c",
      spec: { image: "local", parallelism: 4, appExec: "./My_Pi.x", appArgs: ["a b", "-n", "$(x)"], workingDir: "/home/me" },
    });
  });

  it("uses the image's working directory if there is an image", () => {
    expect(job(["/app/pi"], { image: "me/pi" }).spec.workingDir).toBeUndefined();
    expect(job(["/app/pi"], { image: "me/pi", workdir: "/app" }).spec.workingDir).toBe("/app");
  });

  it("gives the program the caller's PATH if there is no image, and the variables of --env", () => {
    const template = (variables: object) => ({ spec: { containers: [{ env: variables }] } });
    const path = { name: "PATH", value: "/opt/bin:/bin" };
    const { spec } = job(["pi"], { env: ["OMP_NUM_THREADS=4", "PRICE=$(5)"] });
    const expected = template([path, { name: "OMP_NUM_THREADS", value: "4" }, { name: "PRICE", value: "$$(5)" }]);
    expect(spec).toMatchObject({ launcherTemplate: expected, workerTemplate: expected });
    expect(job(["pi"], { env: ["PATH=/mine"] }).spec.workerTemplate).toEqual(template([{ name: "PATH", value: "/mine" }]));
    expect(job(["pi"], { image: "me/pi" }).spec.workerTemplate).toBeUndefined();
  });

  it("names the queue, the priority and what each worker requests", () => {
    const { spec } = job(["pi"], {
      ...{ image: "me/pi", queue: "team", "priority-class": "urgent", env: ["A=1"] },
      request: ["cpu=2", "nvidia.com/gpu=1"],
    });
    expect(spec.runPolicy).toEqual({ schedulingPolicy: { queue: "team", priorityClass: "urgent" } });
    const env = [{ name: "A", value: "1" }];
    expect(spec.launcherTemplate).toEqual({ spec: { containers: [{ env }] } });
    const resources = { requests: { cpu: "2", "nvidia.com/gpu": "1" }, limits: { "nvidia.com/gpu": "1" } };
    expect(spec.workerTemplate).toEqual({ spec: { containers: [{ env, resources }] } });
    expect(() => job(["pi"], { request: ["cpu=many"] })).toThrow(/--request cpu=many: must be a quantity/);
  });

  it("sets the memory of elastic container instances", () => {
    expect(job(["pi"]).spec).toMatchObject({ memoryAllocationMode: "FixedPerCoreMemory", memoryAllocationSize: 2 });
    const { spec } = job(["pi"], { "mem-mode": "FixedTotalMemory", "mem-size": "8" });
    expect(spec).toMatchObject({ memoryAllocationMode: "FixedTotalMemory", memoryAllocationSize: 8 });
  });

  it("lets rank 0 read the caller's standard input", () => {
    expect(job(["./sum"], {}, { hasInput: true }).spec.stdin).toBe(true);
    expect(job(["./sum"]).spec.stdin).toBeUndefined();
  });

  it.each([
    [[], {}, /program/],
    [["./pi"], { np: "0" }, /--np/],
    [["./pi"], { np: "two" }, /--np/],
    [["./pi"], { ttl: "-1" }, /--ttl/],
    [["./pi"], { mpi: "LAM" }, /--mpi/],
    [["./pi"], { "mem-mode": "FixedMemory" }, /--mem-mode/],
    [["./pi"], { "mem-size": "0" }, /--mem-size/],
    [["./pi"], { server: "10.0.0.7" }, /--server and --dir/],
    [["./pi"], { deadline: "0" }, /--deadline/],
    [["./pi"], { image: "me/pi", checkpoint: "state" }, /--checkpoint must be an absolute path/],
  ])("names what is wrong with %j %j", (args, flags, message) => {
    expect(() => job(args, flags as Record<string, string>)).toThrow(UsageError);
    expect(() => job(args, flags as Record<string, string>)).toThrow(message);
  });
});
