import { isJsonObject } from "@keelson/api-machinery";
import { AgentError } from "../agent-error.ts";
import { readJson } from "../json-file.ts";

/** The parameters that a program starts with. */
export interface ProgramParameters {
  readonly parameters: Readonly<Record<string, string>>;
  /** Identifies them; the engine reports it in `info.configHash` while they are in force. */
  readonly hash: string;
}

/**
 * Reads the file that the plugin's ConfigMap template renders: `{"hash": ..., "parameters": {...}}`.
 *
 * **Errors**: an {@link AgentError} with code `InvalidConfig`.
 */
export async function readParameters(file: string): Promise<ProgramParameters> {
  const wanted = await readJson(file);
  if (!isJsonObject(wanted) || !isJsonObject(wanted.parameters))
    throw new AgentError("InvalidConfig", `${file}: parameters: must be an object`);
  const parameters = Object.fromEntries(Object.entries(wanted.parameters).map(([key, value]) => [key, String(value)]));
  return { parameters, hash: String(wanted.hash ?? "") };
}
