import { type Static, Type } from "typebox";
import { choice, int32 } from "@keelson/api-machinery/fields";

/** The driver of a task. */
export const driver = choice(
  ["exec", "docker", "java", "raw_exec"],
  "Driver that runs the program: exec and raw_exec run a process, java a Java program, docker a container. Robots list theirs in status.drivers; an agent rejects a driver that it does not have.",
);

const ExecConfig = Type.Object(
  {
    command: Type.String({ description: "Program: a path, or a name that is looked up in PATH.", minLength: 1 }),
    args: Type.Optional(Type.Array(Type.String(), { description: "Arguments. They do not pass through a shell." })),
  },
  { description: "A program and its arguments, for the drivers exec and raw_exec." },
);

const DockerConfig = Type.Object(
  {
    image: Type.String({ description: "Image. busybox is docker.io/library/busybox:latest.", minLength: 1 }),
    command: Type.Optional(Type.Array(Type.String(), { description: "Replaces the image's entry point." })),
    args: Type.Optional(
      Type.Array(Type.String(), { description: "Replaces the image's arguments. With a command, the image's are not used." }),
    ),
    workDir: Type.Optional(
      Type.String({ description: "Working directory inside the container, as an absolute path. Default: the image's." }),
    ),
    ports: Type.Optional(
      Type.Array(
        Type.Object({
          label: Type.String({ description: "Name of the port." }),
          value: int32("Port on the robot.", { minimum: 0, maximum: 65535 }),
          to: Type.Optional(int32("Port in the container.", { minimum: 0, maximum: 65535 })),
          hostIP: Type.Optional(Type.String({ description: "Address on the robot." })),
        }),
        { description: "Ports of the container. It has the robot's network, so `to` must be the same as `value`." },
      ),
    ),
    volumes: Type.Optional(
      Type.Array(
        Type.Object({
          target: Type.String({ description: "Path in the container." }),
          source: Type.String({ description: "Path on the robot." }),
          readOnly: Type.Optional(Type.Boolean({ description: "Mount it read-only." })),
        }),
        { description: "Files and directories of the robot to mount into the container. The robot's policy must list them." },
      ),
    ),
    networkMode: Type.Optional(
      Type.String({ description: "host: the robot's network; none: no network. Default: what the robot's policy allows." }),
    ),
  },
  { description: "A container, for the driver docker." },
);

const JavaConfig = Type.Object(
  {
    jarPath: Type.String({ description: "Path of the JAR file.", minLength: 1 }),
    jvmOptions: Type.Optional(Type.Array(Type.String(), { description: "Options of the Java virtual machine." })),
    args: Type.Optional(Type.Array(Type.String(), { description: "Arguments of the program." })),
    class: Type.Optional(Type.String({ description: "Main class, if the JAR file does not name one." })),
    classpath: Type.Optional(Type.Array(Type.String(), { description: "Additional class path entries." })),
  },
  { description: "A Java program, for the driver java." },
);

/** What the driver runs. */
export const DriverConfig = Type.Object(
  { execConfig: Type.Optional(ExecConfig), dockerConfig: Type.Optional(DockerConfig), javaConfig: Type.Optional(JavaConfig) },
  { description: "What the driver runs. Set the field that belongs to the driver." },
);
export type DriverConfig = Static<typeof DriverConfig>;
