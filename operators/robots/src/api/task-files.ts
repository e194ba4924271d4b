import { Type } from "typebox";
import { choice, stringMap } from "@keelson/api-machinery/fields";

/** A file to fetch before the program starts. */
export const Artifact = Type.Object(
  {
    getterSource: Type.String({ description: "Where it is: an address that the robot's agent allows.", minLength: 1 }),
    getterOptions: Type.Optional(stringMap("How to fetch it: checksum (sha256:...) is what the content has to be.")),
    relativeDest: Type.Optional(Type.String({ description: "Where it goes, under the task's folder." })),
    getterMode: Type.Optional(choice(["any", "file", "dir"], "Whether it is a file or an archive to unpack.")),
  },
  { description: "A file to fetch before the program starts." },
);

/** A file to make before the program starts. */
export const Template = Type.Object(
  {
    sourcePath: Type.Optional(Type.String({ description: "The template, under the task's folder." })),
    embeddedTmpl: Type.Optional(Type.String({ description: "The template itself." })),
    destPath: Type.String({ description: "Where the file goes, under the task's folder.", minLength: 1 }),
    changeMode: Type.Optional(choice(["restart", "noop", "signal"], "What happens to the program when the file changes.")),
    changeSignal: Type.Optional(Type.String({ description: "The signal for changeMode signal." })),
    perms: Type.Optional(Type.String({ description: "The file's mode, octal." })),
    leftDelim: Type.Optional(Type.String({ description: "Instead of {{." })),
    rightDelim: Type.Optional(Type.String({ description: "Instead of }}." })),
  },
  { description: "A file to make before the program starts. Kept for manifests of K8s4r: no agent acts on it yet." },
);
