import { type Static, Type } from "typebox";
import { Constraint } from "./constraint.ts";
import { DriverConfig, driver } from "./driver-config.ts";
import { duration, listMap, partName, stringMap } from "@keelson/api-machinery/fields";
import { RestartPolicy } from "./policies.ts";
import { Service } from "./service.ts";
import { Artifact, Template } from "./task-files.ts";
import { TaskResources } from "./task-resources.ts";

/** What TaskDefinitions and Tasks have in common: the program and how it is run. */
export const program = {
  driver,
  config: DriverConfig,
  resources: Type.Optional(TaskResources),
  constraints: Type.Optional(Type.Array(Constraint, { description: "Demands on the robot, besides those of the group." })),
  env: Type.Optional(stringMap("Environment variables of the program.")),
  user: Type.Optional(Type.String({ description: "User of the robot that the program runs as, where the agent may switch." })),
  timeout: Type.Optional(duration("How long the program may run, from its start; then it is stopped and the task has failed.")),
  killTimeout: Type.Optional(
    duration("How long a program that is told to stop (SIGTERM) may take before it is killed (SIGKILL).", { default: "5s" }),
  ),
  restartPolicy: Type.Optional(RestartPolicy),
  artifacts: Type.Optional(Type.Array(Artifact, { description: "Files to fetch before the program starts." })),
  templates: Type.Optional(Type.Array(Template, { description: "Files to make before the program starts." })),
  services: Type.Optional(Type.Array(Service, { description: "Services that the program offers." })),
};

/** A task as it is written in a Job or a TaskGroup. */
export const TaskDefinition = Type.Object(
  { name: partName("Name of the task within its group."), ...program },
  { description: "A program to run on a robot." },
);
export type TaskDefinition = Static<typeof TaskDefinition>;

/** The tasks of a group, keyed by name. */
export const taskDefinitions = Type.Array(TaskDefinition, {
  ...listMap("name", "The programs. Each copy of the group runs each of them once."),
  minItems: 1,
});
