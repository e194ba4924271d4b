/** Exit status of a worker that has lost its launcher. */
export const launcherLostExitCode = 111;
/** Exit status after a deadline, as in `timeout`. */
export const deadlineExitCode = 124;
/** Exit status of a launcher that failed for another reason than its program, as in `docker run`. */
export const launchFailedExitCode = 125;
/** Exit status after SIGTERM. */
export const terminatedExitCode = 143;
/** The largest exit status of a program. The system keeps the lowest 8 bits: 256 would be success. */
export const maxExitCode = 255;
