import { type Static, Type } from "typebox";
import { Affinity, Constraint } from "./constraint.ts";
import { Spread } from "./spread.ts";
import { DriverConfig, driver } from "./driver-config.ts";
import { choice, duration, int32, listMap, partName, stringMap } from "@keelson/api-machinery/fields";
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

/** The network proxy of K8s4r, which its own agent does not start either. */
export const network = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean({ description: "Not used." })),
    type: Type.Optional(choice(["envoy", "none"], "Not used.")),
    spiffe: Type.Optional(
      Type.Object(
        {
          trustDomain: Type.Optional(Type.String({ description: "Not used." })),
          agentSocketPath: Type.Optional(Type.String({ description: "Not used." })),
        },
        { description: "Not used." },
      ),
    ),
    upstreams: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Not used." }),
          localPort: Type.Optional(int32("Not used.", { minimum: 1, maximum: 65535 })),
          upstream: Type.Optional(Type.String({ description: "Not used." })),
          protocol: Type.Optional(choice(["tcp", "http", "grpc"], "Not used.")),
          tls: Type.Optional(Type.Boolean({ description: "Not used." })),
        }),
        { description: "Not used." },
      ),
    ),
  },
  { description: "Accepted for compatibility with K8s4r. Not used." },
);

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
  network: Type.Optional(network),
  services: Type.Optional(Type.Array(Service, { description: "Services that the program offers." })),
};

/** A program that a robot runs before the program of a task. */
const InitTask = Type.Object(
  {
    name: partName("Name of the init task within its group."),
    driver,
    config: DriverConfig,
    env: Type.Optional(stringMap("Environment variables, in addition to those of the task.")),
    user: Type.Optional(Type.String({ description: "User that it runs as. Default: that of the task." })),
    timeout: Type.Optional(duration("Maximum run time. After it, the task fails.")),
    daemon: Type.Optional(
      Type.Boolean({ description: "Whether it keeps running alongside the program of the task, and is stopped after it." }),
    ),
  },
  { description: "A program that runs before the program of a task." },
);

/** The init tasks of a group, or of a task. */
export const initTasks = Type.Array(InitTask, {
  ...listMap(
    "name",
    "Programs that run one after the other, on the robot and in the folder of each task, before its program starts.",
  ),
  maxItems: 16,
});

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
