import { expect, it } from "vitest";
import { runProgram } from "./run-program.ts";

const { env, execPath: node } = process;

it("gives a program an empty input, so that a question does not wait forever", async () => {
  const program = "process.stdin.on('end', () => console.log('ended')).resume()";
  expect(await runProgram(node, ["-e", program], { env })).toBe("ended\n");
});

it("kills a program that does not exit in time", async () => {
  const running = runProgram(node, ["-e", "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)"], {
    env,
    timeoutMs: 1,
  });
  await expect(running).rejects.toMatchObject({ killed: true });
});

it("rejects if the program does not exist", async () => {
  await expect(runProgram("/no/such/program", [], { env })).rejects.toMatchObject({ code: "ENOENT" });
});
