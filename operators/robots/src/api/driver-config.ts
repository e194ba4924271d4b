import { type Static, Type } from "typebox";
import { choice, int32 } from "@keelson/api-machinery/fields";

/** How a program is run. */
export const driver = choice(
  ["exec", "docker", "java", "raw_exec"],
  "How the program is run: exec isolated where the robot can, raw_exec as the agent's own child. docker and java are refused by agents that do not have them.",
);

const ExecConfig = Type.Object(
  {
    command: Type.String({ description: "The program: a path, or a name that is looked up in PATH.", minLength: 1 }),
    args: Type.Optional(Type.Array(Type.String(), { description: "Its arguments. No shell reads them." })),
  },
  { description: "A program and its arguments, for the drivers exec and raw_exec." },
);

const DockerConfig = Type.Object(
  {
    image: Type.String({ description: "The image.", minLength: 1 }),
    command: Type.Optional(Type.Array(Type.String(), { description: "Instead of the image's entry point." })),
    args: Type.Optional(Type.Array(Type.String(), { description: "Arguments." })),
    workDir: Type.Optional(Type.String({ description: "Working directory inside the container." })),
    ports: Type.Optional(
      Type.Array(
        Type.Object({
          label: Type.String({ description: "Name of the port." }),
          value: int32("Port on the robot.", { minimum: 0, maximum: 65535 }),
          to: Type.Optional(int32("Port in the container.", { minimum: 0, maximum: 65535 })),
          hostIP: Type.Optional(Type.String({ description: "Address on the robot." })),
        }),
        { description: "Ports to open." },
      ),
    ),
    volumes: Type.Optional(
      Type.Array(
        Type.Object({
          target: Type.String({ description: "Path in the container." }),
          source: Type.String({ description: "Path on the robot." }),
          readOnly: Type.Optional(Type.Boolean({ description: "Whether the container may only read it." })),
        }),
        { description: "Folders of the robot to show in the container." },
      ),
    ),
    networkMode: Type.Optional(Type.String({ description: "Docker's network mode." })),
  },
  { description: "A container, for the driver docker." },
);

const JavaConfig = Type.Object(
  {
    jarPath: Type.String({ description: "The JAR file.", minLength: 1 }),
    jvmOptions: Type.Optional(Type.Array(Type.String(), { description: "Options of the virtual machine." })),
    args: Type.Optional(Type.Array(Type.String(), { description: "Arguments of the program." })),
    class: Type.Optional(Type.String({ description: "Main class, where the JAR names none." })),
    classpath: Type.Optional(Type.Array(Type.String(), { description: "Further entries of the class path." })),
  },
  { description: "A Java program, for the driver java." },
);

/** What the driver runs. */
export const DriverConfig = Type.Object(
  { execConfig: Type.Optional(ExecConfig), dockerConfig: Type.Optional(DockerConfig), javaConfig: Type.Optional(JavaConfig) },
  { description: "What the driver runs: the one of these that belongs to it." },
);
export type DriverConfig = Static<typeof DriverConfig>;
