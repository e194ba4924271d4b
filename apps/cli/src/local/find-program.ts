import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of an executable in `PATH`; undefined if it is not installed. */
export function findProgram(name: string, path = process.env["PATH"] ?? ""): string | undefined {
  return path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
