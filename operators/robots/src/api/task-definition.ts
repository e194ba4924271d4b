import { type Static, Type } from "typebox";
import { Affinity, Constraint } from "./constraint.ts";
import { Spread } from "./spread.ts";
import { DriverConfig, driver } from "./driver-config.ts";
import { duration, listMap, partName, stringMap } from "@keelson/api-machinery/fields";
import { RestartPolicy } from "./policies.ts";
import { Service } from "./service.ts";
import { Artifact, Template } from "./task-files.ts";
import { TaskResources } from "./task-resources.ts";

/** Preferences of a TaskDefinition for robots. */
const preferences = {
  affinities: Type.Optional(
    Type.Array(Affinity, { description: "Preferences for robots, in addition to those of the group.", maxItems: 64 }),
  ),
  spreads: Type.Optional(
    Type.Array(Spread, { description: "How the copies of the task spread, in addition to the group.", maxItems: 24 }),
  ),
};

/** Preferences of a Task for robots: those of its group, which has at most 32 affinities and 16 spreads, and of its definition. */
export const taskPreferences = {
  affinities: Type.Optional(Type.Array(Affinity, { description: "Preferences for robots.", maxItems: 96 })),
  spreads: Type.Optional(Type.Array(Spread, { description: "How the copies of the task spread.", maxItems: 40 })),
};

/** Fields that TaskDefinitions and Tasks have in common: the program and how it runs. */
export const program = {
  driver,
  config: DriverConfig,
  resources: Type.Optional(TaskResources),
  constraints: Type.Optional(
    Type.Array(Constraint, { description: "Requirements on the robot, in addition to those of the group." }),
  ),
  env: Type.Optional(stringMap("Environment variables of the program.")),
  user: Type.Optional(
    Type.String({ description: "User that the program runs as. Only an agent that runs as root can switch." }),
  ),
  timeout: Type.Optional(
    duration("Maximum run time, counted from the start of the program. After it, the program is stopped and the task fails."),
  ),
  killTimeout: Type.Optional(duration("Time between SIGTERM and SIGKILL when the program is stopped.", { default: "5s" })),
  restartPolicy: Type.Optional(RestartPolicy),
  artifacts: Type.Optional(Type.Array(Artifact, { description: "Files to fetch before the program starts." })),
  templates: Type.Optional(Type.Array(Template, { description: "Files to render before the program starts." })),
  dispatchPayload: Type.Optional(
    Type.Object(
      {
        file: Type.String({
          description: "Path of the file, below the task's directory.",
          minLength: 1,
          maxLength: 255,
          pattern: "^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$",
        }),
      },
      { description: "Writes the payload of a dispatched Job to a file before the program starts." },
    ),
  ),
  services: Type.Optional(Type.Array(Service, { description: "Services that the program offers." })),
};

/** A task as a Job or a TaskGroup defines it. */
export const TaskDefinition = Type.Object(
  { name: partName("Name of the task within its group."), ...program, ...preferences },
  { description: "A program to run on a robot." },
);
export type TaskDefinition = Static<typeof TaskDefinition>;

/** The tasks of a group, by name. */
export const taskDefinitions = Type.Array(TaskDefinition, {
  ...listMap("name", "The tasks. Each copy of the group runs each of them once."),
  minItems: 1,
});
