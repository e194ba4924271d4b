import { Type } from "typebox";
import { choice, stringMap } from "@keelson/api-machinery/fields";

/** A file to fetch before the program starts. */
export const Artifact = Type.Object(
  {
    getterSource: Type.String({ description: "URL of the file. The robot's agent must allow it.", minLength: 1 }),
    getterOptions: Type.Optional(stringMap("Options of the download. checksum (sha256:...) is the expected digest.")),
    relativeDest: Type.Optional(Type.String({ description: "Destination, relative to the task's folder." })),
    getterMode: Type.Optional(choice(["any", "file", "dir"], "Whether it is a file or an archive to unpack.")),
  },
  { description: "A file to fetch before the program starts." },
);

/** A file to render before the program starts. */
export const Template = Type.Object(
  {
    sourcePath: Type.Optional(Type.String({ description: "Path of the template, relative to the task's folder." })),
    embeddedTmpl: Type.Optional(Type.String({ description: "Text of the template." })),
    destPath: Type.String({ description: "Destination, relative to the task's folder.", minLength: 1 }),
    changeMode: Type.Optional(choice(["restart", "noop", "signal"], "What happens to the program when the file changes.")),
    changeSignal: Type.Optional(Type.String({ description: "Signal to send with changeMode signal." })),
    perms: Type.Optional(Type.String({ description: "File mode, octal." })),
    leftDelim: Type.Optional(Type.String({ description: "Left delimiter. Default {{." })),
    rightDelim: Type.Optional(Type.String({ description: "Right delimiter. Default }}." })),
  },
  { description: "A file to render before the program starts. Accepted for compatibility with K8s4r; agents reject it." },
);
