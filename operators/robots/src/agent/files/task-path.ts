/** Maximum length of a path below a task's directory. */
const maxPathLength = 1024;

/**
 * Normalizes a path below a task's directory: no leading `./`, empty or `.` components. Undefined if it is absolute, leaves the directory, or
 * is in `logs`, where the program's output is. `.` is the directory itself.
 */
export function folderPath(path: string): string | undefined {
  if (path.startsWith("/") || path.includes("\0") || path.includes("\\") || path.length > maxPathLength) return undefined;
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..") || parts[0] === "logs" || parts.some((part) => Buffer.byteLength(part) > 255)) return undefined;
  return parts.join("/") || ".";
}
