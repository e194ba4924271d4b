import { Type } from "typebox";
import { choice, stringMap } from "@keelson/api-machinery/fields";

/** A file to fetch before the program starts. */
export const Artifact = Type.Object(
  {
    getterSource: Type.String({
      description: "URL of the file: https, http or file. The robot's policy must allow it.",
      minLength: 1,
    }),
    getterOptions: Type.Optional(
      stringMap("Options: checksum (sha256:...), the expected digest; archive (false), to keep an archive packed."),
    ),
    relativeDest: Type.Optional(
      Type.String({
        description:
          "Destination, relative to the task's directory: a directory; with getterMode file, the file. Default: local.",
      }),
    ),
    getterMode: Type.Optional(
      choice(["any", "file", "dir"], "any: archives are unpacked; file: nothing is unpacked; dir: it must be an archive."),
    ),
  },
  { description: "A file to fetch before the program starts." },
);

/** A file to render before the program starts. */
export const Template = Type.Object(
  {
    sourcePath: Type.Optional(Type.String({ description: "Path of the template, relative to the task's directory." })),
    embeddedTmpl: Type.Optional(Type.String({ description: "Text of the template." })),
    destPath: Type.String({ description: "Destination, relative to the task's directory.", minLength: 1 }),
    changeMode: Type.Optional(
      choice(["restart", "noop", "signal"], "What happens to the program when the file changes. Default: restart."),
    ),
    changeSignal: Type.Optional(Type.String({ description: "Signal to send with changeMode signal." })),
    perms: Type.Optional(Type.String({ description: "File mode, octal." })),
    leftDelim: Type.Optional(Type.String({ description: "Left delimiter. Default {{." })),
    rightDelim: Type.Optional(Type.String({ description: "Right delimiter. Default }}." })),
  },
  { description: "A file to render before the program starts, and again when labels or attributes of the robot change." },
);
