import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { exitOnClosedOutput } from "./closed-output.ts";

const closed = Object.assign(new Error("write EPIPE"), { code: "EPIPE" });

function start(faultHandlers = 0) {
  const codes: number[] = [];
  const stdout = new EventEmitter();
  exitOnClosedOutput({ stdout, listenerCount: () => faultHandlers, exit: (code) => void codes.push(code) });
  return { stdout, codes };
}

it("exits as SIGPIPE does when the reader of the output has gone", () => {
  const { stdout, codes } = start();
  stdout.emit("error", closed);
  expect(codes).toEqual([141]);
});

it("leaves other errors, and programs that stop gracefully, to the process", () => {
  const full = Object.assign(new Error("write ENOSPC"), { code: "ENOSPC" });
  expect(() => start().stdout.emit("error", full)).toThrow(full);
  const program = start(1);
  expect(() => program.stdout.emit("error", closed)).toThrow(closed);
  expect(program.codes).toEqual([]);
});
