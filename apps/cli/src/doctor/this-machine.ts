import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { findProgram } from "../local/find-program.ts";
import type { Machine } from "./requirements.ts";

/** The machine that this process runs on. */
export const thisMachine: Machine = {
  nodeVersion: process.versions.node,
  isRoot: process.getuid?.() === 0,
  findProgram,
  read(path) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
  accepts: (path) =>
    new Promise((resolve) => {
      const socket = connect(path);
      socket.once("connect", () => {
        socket.destroy();
        resolve(true);
      });
      socket.once("error", () => resolve(false));
    }),
};
