import { isJsonObject } from "@keelson/api-machinery";
import { AgentError } from "../protocol/agent-error.ts";
import { parseJson } from "./agent-answer.ts";

/** The error of an answer of the agent at `url`. */
export function answerFailure(url: string, status: number, text: string): AgentError {
  const value = parseJson(text);
  const message = isJsonObject(value) && typeof value.message === "string" ? value.message : text.slice(0, 500);
  return new AgentError("Rejected", message === "" ? `the agent at ${url} responded with status ${status}` : message, {
    status,
  });
}

/** {@link answerFailure} for a command as another user: agents of earlier versions do not have its path. */
export function userFailure(url: string, status: number, text: string): AgentError {
  const failure = answerFailure(url, status, text);
  if (status !== 404 || !/path not found|upgrade not supported/.test(failure.message)) return failure;
  const message = "user: the agent is of an earlier version, which runs commands only as the user of the sandbox";
  return new AgentError("Rejected", message, { status: 501 });
}
