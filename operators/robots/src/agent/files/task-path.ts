/** Maximum length of a path below a task's folder. */
const maxPathLength = 1024;

/**
 * Normalizes a path below a task's folder: no leading `./`, empty or `.` components. Undefined if it is absolute, leaves the folder, or
 * is in `logs`, where the program's output is. `.` is the folder itself.
 */
export function folderPath(path: string): string | undefined {
  if (path.startsWith("/") || path.includes("\0") || path.includes("\\") || path.length > maxPathLength) return undefined;
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..") || parts[0] === "logs" || parts.some((part) => Buffer.byteLength(part) > 255)) return undefined;
  return parts.join("/") || ".";
}
