/* Fails in one rank, in the way that the second argument names: RANK segv | exit | abort | kill | return. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  /* No rank fails while another one still initialises: it would fail for that reason. */
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 2 && rank == atoi(argv[1])) {
    fprintf(stderr, "input.dat: no such mesh\n");
    if (strcmp(argv[2], "segv") == 0) raise(SIGSEGV);
    if (strcmp(argv[2], "exit") == 0) exit(3);
    if (strcmp(argv[2], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 9);
    if (strcmp(argv[2], "kill") == 0) raise(SIGKILL);
    if (strcmp(argv[2], "return") == 0) return 4;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
