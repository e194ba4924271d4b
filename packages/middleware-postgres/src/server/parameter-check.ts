import { runTool } from "./run-tool.ts";
import type { ServerFiles } from "./server-files.ts";

/** The server's own message about parameters that it would not start with. Undefined without data. */
export async function problemOf(parameters: Readonly<Record<string, string>>, files: ServerFiles): Promise<string | undefined> {
  if (!files.data.hasData) return undefined;
  const settings = Object.entries(parameters).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const args = ["-D", files.data.path, "-C", "data_directory", ...settings];
  const { exitCode, stderr } = await runTool(files.program("postgres"), args, files.tool);
  if (exitCode === 0) return undefined;
  const lines = stderr.split("\n").map((line) => line.replace(/^.*?(FATAL|ERROR|HINT|DETAIL):\s+/, "$1: "));
  const messages = lines.filter((line) => /^(FATAL|ERROR|HINT|DETAIL): /.test(line));
  return (messages.length > 0 ? messages.map((line) => line.replace(/^[A-Z]+: /, "")) : lines).join("; ").trim();
}
