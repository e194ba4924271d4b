import type { JsonObject } from "@keelson/api-machinery";
import type { AgentPolicy } from "../policy/agent-policy.ts";
import { child, InvalidField, own, text, texts } from "./task-fields.ts";

/** The command line of a task; of a container, what stands for it. **Errors**: {@link InvalidField}. */
export function commandOf(spec: JsonObject, policy: AgentPolicy): readonly [string, ...string[]] {
  const driver = own(spec, "driver");
  if (typeof driver !== "string" || !policy.drivers.includes(driver)) {
    const { unavailable = {} } = policy;
    const why = typeof driver === "string" && Object.hasOwn(unavailable, driver) ? ` (${unavailable[driver]})` : "";
    throw new InvalidField(
      `spec.driver: robot ${policy.robotId} has no driver ${JSON.stringify(driver)}${why}; it has ${policy.drivers.join(", ")}`,
    );
  }
  if (driver === "docker") return ["docker"];
  if (driver === "java") return javaCommandOf(child(child(spec, "config"), "javaConfig"));
  const config = child(child(spec, "config"), "execConfig");
  const command = text(config, "command", "spec.config.execConfig");
  if (command === undefined) {
    throw new InvalidField(`spec.config.execConfig.command is missing; the driver ${driver} requires it`);
  }
  return [command, ...texts(own(config, "args"), "spec.config.execConfig.args")];
}

/** The command line of the java launcher. */
function javaCommandOf(config: JsonObject): readonly [string, ...string[]] {
  const path = "spec.config.javaConfig";
  const jar = text(config, "jarPath", path);
  if (jar === undefined) throw new InvalidField(`${path}.jarPath is missing; the java driver requires it`);
  const main = text(config, "class", path);
  const classPath = texts(own(config, "classpath"), `${path}.classpath`);
  if (main?.startsWith("-")) throw new InvalidField(`${path}.class: ${JSON.stringify(main)} must be the name of a class`);
  // java ignores the class path of a program that is started by its JAR file.
  if (main === undefined && classPath.length > 0) throw new InvalidField(`${path}.class is required together with classpath`);
  const program = main === undefined ? ["-jar", jar] : ["-cp", [jar, ...classPath].join(":"), main];
  const options = texts(own(config, "jvmOptions"), `${path}.jvmOptions`);
  return ["java", ...options, ...program, ...texts(own(config, "args"), `${path}.args`)];
}
