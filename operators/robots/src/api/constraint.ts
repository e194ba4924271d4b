import { type Static, Type } from "typebox";
import { choice } from "@keelson/api-machinery/fields";

/** The comparisons that a constraint can make. */
export const operands = ["=", "!=", ">", ">=", "<", "<=", "regexp", "set_contains", "version"] as const;

const left =
  "What is compared: text with ${attr.NAME}, ${label.NAME}, ${meta.NAME} or ${robot.id} in it, for example ${attr.kernel.name} (linux), ${attr.cpu.arch}, ${attr.cpu.numcores}, ${attr.memory.totalbytes}, ${attr.os.name}, ${attr.os.version}, ${attr.unique.hostname}.";
const right =
  'What it is compared with: text, for regexp a regular expression, for version a list such as ">= 1.2, < 2", for set_contains a list with commas.';

/** A demand on a robot. */
export const Constraint = Type.Object(
  {
    lTarget: Type.Optional(Type.String({ description: left, maxLength: 1024 })),
    rTarget: Type.Optional(Type.String({ description: right, maxLength: 1024 })),
    ltarget: Type.Optional(Type.String({ description: "Another spelling of lTarget.", maxLength: 1024 })),
    rtarget: Type.Optional(Type.String({ description: "Another spelling of rTarget.", maxLength: 1024 })),
    operand: Type.Optional(choice(operands, "The comparison.", { default: "=" })),
  },
  { description: "A demand on the robot: lTarget operand rTarget has to hold." },
);
export type Constraint = Static<typeof Constraint>;
