import { UsageError } from "@keelson/operator/flags";
import { describe, expect, it } from "vitest";
import { jobOfFlags } from "./run.ts";

const job = (args: string[], flags: Record<string, string | true> = {}) => jobOfFlags({ args, flags }, "/home/me", "0a1b2c");

describe("keelson mpi run", () => {
  it("creates a job for a program in the current folder, named after it", () => {
    expect(job(["./My_Pi.x", "a b", "-n", "$(x)"], { np: "4" })).toMatchObject({
      name: "my-pi-x-0a1b2c",
      spec: { image: "local", parallelism: 4, appExec: "./My_Pi.x", appArgs: ["a b", "-n", "$(x)"], workingDir: "/home/me" },
    });
  });

  it("uses the image's working directory if there is an image", () => {
    expect(job(["/app/pi"], { image: "me/pi" }).spec.workingDir).toBeUndefined();
    expect(job(["/app/pi"], { image: "me/pi", workdir: "/app" }).spec.workingDir).toBe("/app");
  });

  it.each([
    [[], {}, /program/],
    [["./pi"], { np: "0" }, /--np/],
    [["./pi"], { np: "two" }, /--np/],
    [["./pi"], { ttl: "-1" }, /--ttl/],
    [["./pi"], { mpi: "LAM" }, /--mpi/],
    [["./pi"], { server: "10.0.0.7" }, /--server and --dir/],
    [["./pi"], { deadline: "0" }, /--deadline/],
  ])("names what is wrong with %j %j", (args, flags, message) => {
    expect(() => job(args, flags as Record<string, string>)).toThrow(UsageError);
    expect(() => job(args, flags as Record<string, string>)).toThrow(message);
  });
});
