import { once } from "node:events";
import { type CommandDefinition, outputFlag } from "@keelson/operator";
import { toJson } from "@bufbuild/protobuf";
import { type FileChange, FileChangeSchema, FileChangeType } from "@keelson/sandbox/protocol";
import { connectionFlags, runWith } from "./connection.ts";
import { printable } from "./printable.ts";

const names: Partial<Record<FileChangeType, string>> = {
  [FileChangeType.CREATE]: "create",
  [FileChangeType.WRITE]: "write",
  [FileChangeType.REMOVE]: "remove",
  [FileChangeType.RENAME]: "rename",
  [FileChangeType.CHMOD]: "chmod",
};

const line = ({ type, path, isDirectory }: FileChange): string =>
  `${(names[type] ?? "unknown").padEnd(6)}  ${printable(path)}${isDirectory ? "/" : ""}\n`;

/** `keelson sandbox watch`. */
export const watchCommand: CommandDefinition = {
  name: "watch",
  description:
    "print the changes in a directory of a sandbox, one per line, until the directory is removed or the sandbox ends",
  args: ["NAME", "[PATH]"],
  flags: [
    ...connectionFlags,
    { name: "recursive", short: "r", description: "also watch the directories below it" },
    outputFlag,
  ],
  run: (context) =>
    runWith(context, async ({ files, namespace }) => {
      const [sandboxName = "", path = "."] = context.args;
      const isJson = outputFlag.read(context.flags).kind === "json";
      const request = { sandboxName, namespace, path, recursive: context.flags.recursive === true };
      for await (const { started, changes, lostChanges } of files.watch(request, { signal: context.signal })) {
        if (started && !isJson) context.stderr.write(`watching ${printable(path)} of sandbox ${namespace}/${sandboxName}\n`);
        const lost = isJson
          ? '{"lostChanges":true}\n'
          : "lost    changes were made faster than they were read, or there are too many directories\n";
        const lines = changes.map((each) => (isJson ? `${JSON.stringify(toJson(FileChangeSchema, each))}\n` : line(each)));
        if (!context.stdout.write(`${lostChanges ? lost : ""}${lines.join("")}`)) await once(context.stdout, "drain");
      }
      return 0;
    }),
};
