"""What an array is: readings → rates → candidates → trial → causes.

A *form* (`forms`) is the matrix within an array that a program keeps otherwise than posenc writes
it. A *view* (`readings`) pairs its columns: cosines beside sines. *Rates* (`rates`, `fitting`) are
the radians a row that each pair turns by. A *guess* is what a scheme's own inverse makes of rates,
parameters alone; a *proposal* (`candidates`) is a guess with the frequencies that it gives, held
against the rates. A *hypothesis* (`trial`) adds what rates do not say: which table, at which
positions, with what mistake. A *trial* is a hypothesis held against some rows, and a *census*
against every cell: nothing is said of an array without one. `checks.identify` calls a trial and
the array that it was tried on an *attempt*, and what a reader is told of it a *candidate*; an
*alternative* (`rules`) and a defect are what the diagnosis tries beside a reference.
"""
